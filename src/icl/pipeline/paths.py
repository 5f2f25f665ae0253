"""Where the results of a config are: names of files from its folder, and nothing else."""

from icl.pipeline.config import Config


class Paths(Config):
    """A config and its files below results/<folder> and figures/<folder>."""

    @property
    def results(self) -> str:
        """The folder of weights, tables and verdicts."""
        return f"results/{self.folder}"

    @property
    def pictures_folder(self) -> str:
        """The folder of pictures."""
        return f"figures/{self.folder}"

    def weights_file(self, sweep: str, shard: str) -> str:
        """Return the trained weights of a shard."""
        return f"{self.results}/runs/{sweep}/{shard}.safetensors"

    def table_file(self, name: str) -> str:
        """Return the figure's table."""
        return f"{self.results}/tables/{name}.parquet"

    def verdict_file(self, name: str) -> str:
        """Return the figure's verdicts."""
        return f"{self.results}/verdicts/{name}.json"

    def record_file(self, name: str) -> str:
        """Return the record of what the figure's pictures were drawn from."""
        return f"{self.results}/drawn/{name}.json"
