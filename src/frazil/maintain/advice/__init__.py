"""Find out from metadata alone what ails a table, what each cure costs and brings (`recommend`), and run the cures in a budget (`auto`)."""

__all__ = ["auto", "finding", "recommend"]
