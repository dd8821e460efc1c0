"""Records: the nouns of the product, as values that every layer passes around."""
