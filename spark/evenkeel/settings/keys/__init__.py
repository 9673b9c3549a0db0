"""The keys, one module per concern; `evenkeel.settings.registry` combines them."""
