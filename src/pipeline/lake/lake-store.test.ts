import { makeLocalLake, makeS3Lake } from '../../../test/lake-stores.ts'
import { lakeStoreConformance } from './lake-store-conformance.ts'

lakeStoreConformance('a lake in a folder', makeLocalLake)
lakeStoreConformance('a lake in a bucket', makeS3Lake)
