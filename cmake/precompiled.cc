// Holds no code: the target that the rooms take their precompiled headers from needs a source.
