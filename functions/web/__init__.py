"""What the HTTP applications share: who may come in, what a body may be, problem documents, destinations."""
