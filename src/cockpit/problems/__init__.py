"""Things to optimise, one file per problem."""
