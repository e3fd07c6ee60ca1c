"""Embeddings: one vector per image, the files that keep them, and the nearest neighbors of an image."""

from covpool.studies.embed._embed import check_model as check_model
from covpool.studies.embed._embed import embed as embed
from covpool.studies.embed._embed import embed_image as embed_image
from covpool.studies.embed._embedder import START_IMAGES as START_IMAGES
from covpool.studies.embed._embedder import Embedder as Embedder
from covpool.studies.embed._embedder import FrozenBackbone as FrozenBackbone
from covpool.studies.embed._embedder import StartedEmbedder as StartedEmbedder
from covpool.studies.embed._embedder import read_backbone as read_backbone
from covpool.studies.embed._embedder import spread as spread
from covpool.studies.embed._embedder import start_embedder as start_embedder
from covpool.studies.embed._embeddings import SUFFIXES as SUFFIXES
from covpool.studies.embed._embeddings import Embeddings as Embeddings
from covpool.studies.embed._embeddings import check_output as check_output
from covpool.studies.embed._embeddings import read_embeddings as read_embeddings
