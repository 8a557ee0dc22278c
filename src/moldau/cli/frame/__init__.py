"""What every command shares: how it connects, what it prints, when it asks before it acts."""
