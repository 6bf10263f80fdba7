"""Questions to a fitted model besides predictions: explanations and intervals."""
