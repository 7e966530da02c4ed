"""The weights of Stretto's demonstration models: files alone, which Stretto finds and reads."""
