"""Everything that an installation without a network needs: `make wheelhouse`."""
