"""The whole loop on a real cluster: observed, decided, steered, and seen to have followed."""
