"""The names of the requirements and scenarios: `requirement`, and `requirement__scenario`."""

from __future__ import annotations

NAMES: dict[str, frozenset[str]] = {
    "embedding_and_rag": frozenset(
        {
            "req_emb_001_embedding_provider_interface",
            "req_emb_001_embedding_provider_interface__google",
            "req_emb_001_embedding_provider_interface__local_ollama",
            "req_emb_001_embedding_provider_interface__openai",
            "req_emb_001_embedding_provider_interface__unknown_provider_type",
            "req_emb_002_vector_store",
            "req_emb_002_vector_store__delete_removes",
            "req_emb_002_vector_store__search_sorts_by_distance_ascending",
            "req_emb_002_vector_store__upsert_replaces",
            "req_emb_002_vector_store__upsert_stores",
            "req_emb_003_sqlite_vec_integration",
            "req_emb_004_async_embedding_buffer",
            "req_emb_004_async_embedding_buffer__enqueued_is_processed_in_the_background",
            "req_emb_004_async_embedding_buffer__one_batch_at_size_or_timeout",
            "req_emb_004_async_embedding_buffer__stop_drains",
            "req_emb_005_store_integration",
            "req_emb_006_rag_service",
            "req_emb_007_agent_context_injection",
            "req_emb_008_configuration",
            "req_emb_009_doctor_check",
        }
    ),
    "embedders_vector_stores_rerankers": frozenset(
        {
            "chroma_vector_store_implementation",
            "chroma_vector_store_implementation__positions_preserved_through_storage",
            "cohere_reranker_implementation",
            "cohere_reranker_implementation__rerank_with_cohere",
            "embedder_interface",
            "embedder_interface__embed_multiple_texts",
            "embedder_interface__single_query_embedding_consistency",
            "in_memory_vector_store_implementation",
            "in_memory_vector_store_implementation__cosine_similarity_ranking",
            "in_memory_vector_store_implementation__works_without_external_dependencies",
            "openai_embedder_implementation",
            "openai_embedder_implementation__create_with_async_factory",
            "openai_embedder_implementation__missing_openai_package",
            "reranker_interface",
            "reranker_interface__rerank_reorders_chunks_by_relevance",
            "reranker_interface__rerank_with_empty_input",
            "vector_store_interface",
            "vector_store_interface__add_and_search_returns_relevant_chunks",
            "vector_store_interface__clear_removes_all_data",
        }
    ),
    "chunkers": frozenset(
        {
            "chunk_id_generation",
            "chunk_id_generation__deterministic_chunk_ids",
            "chunk_id_generation__different_content_produces_different_ids",
            "chunker_interface",
            "chunker_interface__chunker_returns_text_segments",
            "chunker_position_adapter",
            "chunker_position_adapter__adapter_handles_non_locatable_chunks",
            "chunker_position_adapter__adapter_locates_chunks_sequentially",
            "chunker_position_adapter__adapter_name_includes_wrapped_chunker_name",
            "position_aware_chunker_interface",
            "position_aware_chunker_interface__position_aware_chunks_have_valid_positions",
            "recursive_character_chunker",
            "recursive_character_chunker__chunk_text_with_default_settings",
            "recursive_character_chunker__chunk_with_positions_tracks_offsets",
            "recursive_character_chunker__reject_invalid_overlap",
            "type_guard_for_chunker_detection",
            "type_guard_for_chunker_detection__detect_basic_chunker",
            "type_guard_for_chunker_detection__detect_position_aware_chunker",
        }
    ),
}

NOT_BUILT: frozenset[str] = frozenset()
"""Requirements that are not implemented yet."""
