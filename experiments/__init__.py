"""The paper, figure by figure, with askwell's public interface."""
