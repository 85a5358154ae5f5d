"""What a hostile reviewer found."""
