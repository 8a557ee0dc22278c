"""The client library: connections now; producer, consumer and admin stand on them."""
