"""Curvature of one backward pass, from autograd alone: the loss's Hessian, columns of the Gauss-Newton matrix, products
with the Hessian, its largest eigenvalue, random estimates of its diagonal.
"""
