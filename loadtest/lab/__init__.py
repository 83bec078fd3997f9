"""The lab: runs a server from outside, under load, and says what can be said."""
