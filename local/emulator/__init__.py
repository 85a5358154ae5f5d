"""Files for Microsoft's own Service Bus emulator, for those who have Docker."""
