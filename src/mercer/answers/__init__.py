"""What a fitted model can be asked besides predictions; it tells of itself by a record."""
