"""The keys themselves, one module per concern; `evenkeel.settings.settings` puts them together."""
