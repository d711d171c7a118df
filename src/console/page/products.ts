import { showCategories } from './categories.ts'
import { showImport } from './import.ts'
import { showNewProduct } from './new-product.ts'
import { showProductList } from './product-list.ts'
import { showProduct } from './product-view.ts'
import type { Screen } from './screen.ts'

export const products: Screen = {
  title: 'Products',
  scopes: ['products:write', 'stock:read'],
  open(root, context) {
    const productId = context.parameters.get('product')
    if (productId !== null) showProduct(root, productId, context)
    else if (!context.may('products:write')) showProductList(root, context)
    else if (context.parameters.has('categories')) showCategories(root, context)
    else if (context.parameters.has('new')) showNewProduct(root, context)
    else if (context.parameters.has('import')) showImport(root, context)
    else showProductList(root, context)
  },
}
