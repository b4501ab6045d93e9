"""The launcher for one machine: embedded servers, the processes of Weighbridge, `bin/up` and `bin/demo`."""
