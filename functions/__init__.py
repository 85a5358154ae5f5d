"""What is deployed: the pattern's core, its adapters to Azure and the two example workflows."""
