"""What makes the extractor's weights: corpora, batches, losses, and the run that trains."""
