import { lakeTableConformance } from '../../../test/conformance/lake-table-conformance.ts'
import { makeS3Lake } from '../../../test/lake-stores.ts'

lakeTableConformance('bucket', makeS3Lake)
