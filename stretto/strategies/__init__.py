"""How one request becomes one or many generations, and one merged answer."""
