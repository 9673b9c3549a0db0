"""Guards that may hold a decided command back: `hold_back` applies all guards in order. Pure."""
