import { lakeStoreConformance } from '../../test/conformance/lake-store-conformance.ts'
import { makeLocalLake, makeS3Lake } from '../../test/lake-stores.ts'

lakeStoreConformance('a lake in a folder', makeLocalLake)
lakeStoreConformance('a lake in a bucket', makeS3Lake)
