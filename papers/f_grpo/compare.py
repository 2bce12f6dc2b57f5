def gather(root):
    pass


def show(root):
    pass
