"""The job types that ship with Weighbridge. Importing this package registers all of them."""

from workers.catalog import arrays_convolve as arrays_convolve
from workers.catalog import http_aggregate as http_aggregate
from workers.catalog import numbers_sum_squares as numbers_sum_squares
from workers.catalog import probe_sleep as probe_sleep
from workers.catalog import probe_spin as probe_spin
from workers.catalog import reports_statistics as reports_statistics
from workers.catalog import routes_optimize as routes_optimize
