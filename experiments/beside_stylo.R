# Zeta, distances and the consensus tree by stylo's own functions, for experiments/beside_stylo.py.
# Arguments: the folder R of a checkout of stylo, the folder of the exchange.
library(ape)
given <- commandArgs(trailingOnly = TRUE)
for (name in c("zeta.craig.R", "dist.delta.R", "dist.wurzburg.R")) source(file.path(given[1], name))
setwd(given[2])

# The same table and the same segments into both.
shares <- as.matrix(read.csv("shares.csv", header = FALSE))
out <- function(x, file) write.table(x, file, sep = ",", row.names = FALSE, col.names = FALSE)
options(digits = 17)
out(as.matrix(dist.delta(shares)), "delta.csv")
out(as.matrix(dist.wurzburg(shares)), "cosine.csv")
segments <- read.csv("segments.csv", quote = "\"")
table <- as.matrix(segments[, c("first", "second")])
rownames(table) <- segments$word
told <- function(zeta, file) {
  both <- unlist(unname(zeta))
  write.csv(data.frame(word = names(both), zeta = sprintf("%.17g", both)), file, row.names = FALSE)
}
told(zeta.craig(table, 0.2), "zeta_same.csv")

# Each program with words and segments of its own: letters alone, slices of 2,000 words of all of
# an author's papers joined, words that occur three times or more (as in stylo's oppose()).
words_of <- function(file) {
  text <- tolower(paste(readLines(file, encoding = "UTF-8"), collapse = "\n"))
  found <- unlist(strsplit(text, "[^[:alpha:]]+"))
  found[nchar(found) > 0]
}
sides <- list(words_of("first.txt"), words_of("second.txt"))
total <- sort(table(unlist(sides)), decreasing = TRUE)
listed <- names(total[total > 2])
shares_with <- function(words) {
  n <- floor(length(words) / 2000)
  has <- sapply(seq_len(n), function(i) listed %in% words[((i - 1) * 2000 + 1):(i * 2000)])
  rowMeans(has) * 100
}
own <- sapply(sides, shares_with)
rownames(own) <- listed
told(zeta.craig(own, 0.2), "zeta_own.csv")

# The bootstrap consensus tree as stylo() makes it: neighbour joining over bands of words.
files <- list.files("samples", full.names = TRUE)
texts <- lapply(files, words_of)
frequent <- names(sort(table(unlist(texts)), decreasing = TRUE))[1:1000]
share <- function(words) as.numeric(table(factor(words, levels = frequent))) / length(words) * 100
frequencies <- t(sapply(texts, share))
rownames(frequencies) <- sub(".txt$", "", basename(files))
trees <- lapply(seq(100, 1000, 100), function(n) nj(dist.wurzburg(frequencies[, 1:n])))
tree <- consensus(trees, p = 0.5)
groups <- sapply(prop.part(tree), function(one) paste(tree$tip.label[one], collapse = ";"))
writeLines(groups, "groups.txt")
