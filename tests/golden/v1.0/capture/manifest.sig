{
  "algorithm": "ed25519",
  "publicKey": "Kay64UG8yvCyLhqU000LxzYeUm0L/hLIl5S8kyKWbdc=",
  "signature": "pThMoyGeG9LfqZB1DGvjTJvBb1NDOwyrMpmHr+Wu4iL10GkfBt66Jkw8Q9B5tZX2dhYt3yqVbjb3T8cCLtV+CQ=="
}
