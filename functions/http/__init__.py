"""What the HTTP applications share: problem documents and what a body may be."""
