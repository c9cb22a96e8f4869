"""Read, apply and write position deletes, deletion vectors and equality deletes of data files."""
