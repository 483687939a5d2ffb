"""Files that make a machine the appliance, and programs that prepare them."""
