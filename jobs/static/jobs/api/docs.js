// A file of its own, since the page's policy allows no script inside it.
SwaggerUIBundle({
  url: "/api/schema/",
  dom_id: "#docs",
  deepLinking: true,
  validatorUrl: null, // its badge would ask another host
  defaultModelsExpandDepth: 0,
});
