"""The routes of the service, one file for what belongs together; `routes.all` lists them."""
