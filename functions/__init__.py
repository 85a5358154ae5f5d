"""The deployed application: the pattern's core, its adapters to Azure, and the workflows."""
