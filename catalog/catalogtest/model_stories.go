package catalogtest

var modelStories = []story{}
