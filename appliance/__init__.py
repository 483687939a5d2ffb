"""The appliance around the engine: the command line, and later the service and its log."""
