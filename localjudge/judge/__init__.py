"""What is asked and which answers are legal; knows no backend."""
