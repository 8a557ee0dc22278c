"""The commands of `moldau collect`, and what they have in common (`frame`)."""
