"""Files for Microsoft's own Service Bus emulator, which needs Docker."""
