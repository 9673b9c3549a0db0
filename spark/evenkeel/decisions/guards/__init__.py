"""What may hold a decided command back: one guard per module, `hold_back` over all of them."""
