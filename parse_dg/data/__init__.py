"""A benchmark on disk becomes batches of every source domain."""
