"""What speaks to an authority: the protocol that providers implement, and those that come along."""
