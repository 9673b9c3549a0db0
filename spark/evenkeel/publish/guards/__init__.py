"""What may hold a decided command back: `hold_back` asks all guards in order. Pure."""
