"""Texts to numbers: ``list[str] -> (n, L)``.

``tokens`` and ``vocabulary`` say what the network reads, ``network`` is the network, ``losses`` and
``author_batches`` what it learns from, ``extractor_training`` the loop, ``weights`` the file.
"""
