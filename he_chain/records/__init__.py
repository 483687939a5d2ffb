"""What a run leaves behind: a record for every hop, chained by digests."""
