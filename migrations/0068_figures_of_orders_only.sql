-- contract: no process of this version stores figures of requests or of the pipeline.
drop table request_figures;
drop table pipeline_figures;
