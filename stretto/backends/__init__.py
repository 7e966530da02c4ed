"""Who generates: remote APIs, the local engine, any LangChain model, and wrappers that add behaviour to one."""
